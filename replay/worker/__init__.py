"""Takes submission ids, verifies, settles: the only package here that knows the gateway.

RQ only says when to look. What is to be done, who does it, and how often it was tried stands in the ledger: a job that
is lost, doubled, forged or left behind by a crash changes no verdict. `process` is the worker's process, `verifier` what it
does with a submission.
"""
