"""Measures how well the judgement judges, on a population whose cheats are known.

`pool` has real runs of the bundled game; `courses` says what players do with them, `population` when, and
what they claim; `hands` makes the words of their recordings. `claims` and `recordings` compute how suspicious
each run is to each check (`signals`). `calibration` sets thresholds, `detection` counts what lies beyond
them, `outcomes` applies the shipped policy, `report` prints tables. `python -m bench.judgement` runs all of
it.
"""
