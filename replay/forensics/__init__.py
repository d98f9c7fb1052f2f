"""What a replay cannot see: timing of inputs, slow motion, likeness to other recordings.

A replay proves that inputs give a score. It does not prove that a hand made them, in real time, and for the first time.
Everything here is arithmetic on input words: pure, without a clock, and in numpy. What is found is for moderators: a
program that imitates a hand well is not told from one.
"""
