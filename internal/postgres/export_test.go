package postgres

// DeleteExpired is the statement of a clean-up's batch, for tests that hold it in the middle.
const DeleteExpired = deleteExpired
