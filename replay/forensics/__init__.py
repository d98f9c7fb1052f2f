"""What re-simulation cannot see: who, or what, made the inputs, and whether they are another recording's.

A replay proves that inputs give a score. It does not prove that a hand made them, in real time, and for the first time.
Everything here is arithmetic on input words: pure, without a clock, and in numpy. What is found is for moderators: a
program that imitates a hand well is not told from one.
"""
