"""What a site keeps about its answers: policy, journal, ledger; and how processes share files."""
