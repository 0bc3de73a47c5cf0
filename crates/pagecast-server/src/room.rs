//! Places of clients that are logged in, of which a few are for administrators.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// Places that are kept for administrators, as superuser_reserved_connections of PostgreSQL.
const RESERVED: usize = 3;

/// Places among the clients that are connected.
pub(super) struct Room {
    most: usize,
    open: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
}

/// A client's place, and one among those of its user if they are limited.
pub(super) struct Seat {
    _place: OwnedSemaphorePermit,
    _own: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// With so many places. Where nobody is an administrator, none is kept.
    pub(super) fn new(most: usize, administrators: bool) -> Self {
        let reserved = if administrators { RESERVED.min(most.saturating_sub(1)) } else { 0 };
        let [open, reserved] = [most - reserved, reserved].map(|places| Arc::new(Semaphore::new(places)));
        Self { most, open, reserved }
    }

    /// Clients that have a place.
    pub(super) fn taken(&self) -> usize {
        self.most - self.open.available_permits() - self.reserved.available_permits()
    }

    /// A place for a user, who may have so many, of which `own` are free.
    pub(super) fn enter(&self, user: &str, administrator: bool, own: Option<&Arc<Semaphore>>) -> Result<Seat, Problem> {
        let own = match own.map(|own| Arc::clone(own).try_acquire_owned()) {
            None => None,
            Some(Ok(own)) => Some(own),
            Some(Err(_)) => {
                let what = format!("user \"{user}\" has as many connections as it may (connections= in --users)");
                return Err(Problem::fatal("53300", what));
            }
        };
        let place = Arc::clone(&self.open).try_acquire_owned();
        let place = match place {
            Err(_) if administrator => Arc::clone(&self.reserved).try_acquire_owned(),
            place => place,
        };
        let most = self.most;
        let full = |_| {
            Problem::fatal("53300", format!("{most} clients are connected, which is the limit (--max-connections)"))
        };
        Ok(Seat { _place: place.map_err(full)?, _own: own })
    }
}

/// Who is not let in, for the log.
pub(super) fn refused(user: &str, address: IpAddr, problem: &Problem) -> String {
    format!("user \"{}\" from {address} is not let in: {}", super::notices::short(user), problem.message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn administrators_find_a_place() {
        let room = Room::new(5, true);
        let ada = Arc::new(Semaphore::new(1));
        let seats = [room.enter("ada", false, Some(&ada)).unwrap(), room.enter("bob", false, None).unwrap()];
        assert!(room.enter("ada", false, Some(&ada)).is_err_and(|problem| problem.message.contains("\"ada\"")));
        assert!(room.enter("bob", false, None).is_err_and(|problem| problem.message.contains("5 clients")));
        let root: Vec<_> = (0..3).map(|_| room.enter("root", true, None).unwrap()).collect();
        assert!(room.enter("root", true, None).is_err());
        assert_eq!(room.taken(), 5);
        drop((seats, root));
        assert_eq!(room.taken(), 0);
        assert!(Room::new(1, true).enter("bob", false, None).is_ok());
    }
}
