"""Rules that drop work: each file a family, each rule a function of one node (see rewriting.Rule)."""
