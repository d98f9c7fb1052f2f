"""Takes submission ids, verifies and settles: the only package of this room that knows the gateway.

RQ only says when to look. The ledger says what is to be done, by whom, and how often it was tried: a job that
is lost, duplicated, forged or left by a crash changes no verdict. `process` is the worker's process,
`verifier` handles a submission.
"""
