"""Detects what a replay cannot see: the timing of inputs, slow motion, likeness to other recordings.

A replay proves that inputs give a score. It does not prove that a hand made them, in real time, and for the
first time. Everything here is pure arithmetic on input words, without a clock, in numpy. Findings are for
moderators: a program that imitates a hand well passes for one.
"""
