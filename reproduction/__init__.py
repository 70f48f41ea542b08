"""What makes the tables of RESULTS.md: studies, experiments, tables and figures."""
