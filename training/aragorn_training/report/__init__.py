"""Write reports on runs, and the generated sections of the READMEs."""
