"""The database, and the trees and streams in it."""
