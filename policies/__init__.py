"""What we believe: the vocabulary, the policy of each board, and the YAML files that state it."""
