"""What the columns of a table mean: a schema, and how files become columns of numbers by it."""
