"""What we believe: the vocabulary, the policy model, one YAML file per board."""
