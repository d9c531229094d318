"""Reports on runs, and the generated parts of the READMEs."""
