//! Checks of one's own: programs that judge a request before it runs and its output before it goes out.
