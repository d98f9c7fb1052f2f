"""Submissions: their rows, the work that waits on them, and the operations of trusted servers."""
