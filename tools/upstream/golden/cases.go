package main

// testCase is one job, and after evaluation what Trainer makes of it. Runtime is a key of the file's `runtimes`.
type testCase struct {
	Name     string   `json:"name"`
	Runtime  string   `json:"runtime"`
	TrainJob document `json:"trainjob"`
	outcome
}

// collector gathers the cases of one file in order, each job with each runtime once.
type collector struct {
	cases []testCase
	seen  map[string]bool
}

// add takes one case; the group before the colon of its name says what is varied. A nil trainer leaves spec.trainer out.
func (c *collector) add(group, name, runtimeKey string, trainer document) {
	job := trainJob(runtimeName(runtimeKey), trainer)
	content := runtimeKey + line(job)
	if c.seen[content] {
		return
	}
	c.seen[content] = true
	c.cases = append(c.cases, testCase{Name: group + ": " + name, Runtime: runtimeKey, TrainJob: job})
}

// variable is one entry of env.
func variable(name, value string) document {
	return document{"name": name, "value": value}
}
