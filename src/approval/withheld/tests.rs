//! What is read off a result, bound and shown.
