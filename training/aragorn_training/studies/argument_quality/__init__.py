"""Evaluate listwise argument-quality networks by the protocol of Favreau et al. (2022)."""
