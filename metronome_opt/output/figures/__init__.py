"""Figures: one file each; `metronome_opt.plot` names them."""
