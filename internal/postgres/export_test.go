package postgres

// DeleteExpired is the statement of a clean-up's batch, for tests that hold it in the middle.
const DeleteExpired = deleteExpired

// LastResolved is the statement that looks up what persons have ended, for tests of how it is carried out.
const LastResolved = lastResolved
