"""An independent oracle: plain SQL over what was written, held against every kind of read over HTTP."""
