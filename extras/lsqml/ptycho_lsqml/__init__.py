"""LSQ-ML of pty-chi, for comparison; ``process`` runs it alone, ``fit`` calls that from here."""
