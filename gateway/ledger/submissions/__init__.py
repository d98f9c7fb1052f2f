"""Submissions: appends, the work they cause, and the operations of trusted servers."""
