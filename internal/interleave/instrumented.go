package interleave

// Instrumented reports whether the packages under test were rewritten to have steps.
const Instrumented = false
