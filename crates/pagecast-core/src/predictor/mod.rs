//! Scans on their progress axis, and when they will next read a page.
