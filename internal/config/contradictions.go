package config

// contradiction is a rule that looks at more than one setting. It is not checked when one of those it needs is broken by
// itself, so that one mistake gives one line.
type contradiction struct {
	needs []string
	check func(e environment, c Config) *SettingError
}

// contradictions are all rules between settings.
//
// There is none between PAYSAGA_CALL_TIMEOUT and PAYSAGA_LEASE: the lease is renewed while a call runs.
func contradictions() []contradiction {
	return append(
		providerContradictions(),
		contradiction{[]string{callTimeoutName, drainTimeoutName}, checkDrain},
		contradiction{[]string{awaitDeadlineName, retentionName}, checkRetention},
		contradiction{[]string{retentionName}, checkMemory},
	)
}

// checkDrain: a server that stops must outwait its own provider calls, else every deploy makes outcomes unknown.
func checkDrain(_ environment, c Config) *SettingError {
	if c.DrainTimeout >= c.CallTimeout {
		return nil
	}
	return problemf(drainTimeoutName, "is %s, shorter than %s, %s; a stopping server must be able to finish a provider call",
		brief(c.DrainTimeout), callTimeoutName, brief(c.CallTimeout))
}

// checkRetention: a key must not be forgotten while its order still waits, else a retry would be a second order.
func checkRetention(_ environment, c Config) *SettingError {
	if c.Retention > c.AwaitDeadline {
		return nil
	}
	return problemf(retentionName, "is %s, not longer than %s, %s; a key must outlive its waiting order",
		brief(c.Retention), awaitDeadlineName, brief(c.AwaitDeadline))
}
