package interleave

// Instrumented reports whether the packages under test were rewritten with steps.
const Instrumented = false
