"""What the judge looks at, one file a check, found by name (see kernelwright.judge.check)."""
