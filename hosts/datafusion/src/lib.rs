//! pagecast under DataFusion.
