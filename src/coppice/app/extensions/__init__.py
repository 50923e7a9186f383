"""Extensions: typed hooks now; the loader comes with a later version."""
