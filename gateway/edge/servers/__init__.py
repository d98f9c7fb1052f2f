"""What trusted game servers write, alone and in batches."""
