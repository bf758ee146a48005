"""Floor 1, what is kept: the only room that speaks SQL. Plain functions with the transaction first."""
