"""Large contents, stored once by their digest: small ones in rows, the others in files."""
