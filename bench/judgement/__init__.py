"""How well the judgement judges: a population whose cheats are known, and what each layer finds of it.

`pool` has real runs of the bundled game; `courses` what players do with them, `population` when, and what they claim; `hands`
the words of their recordings. `claims` and `recordings` say how suspicious each run is to each check (`signals`),
`calibration` where the thresholds are, `detection` what lies beyond them, `outcomes` what the shipped policy does, `report`
the tables. `python -m bench.judgement` runs all of it.
"""
