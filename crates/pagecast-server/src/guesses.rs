//! Wrong passwords: each one makes the next try of the same user from the same address wait
//! longer. Who logs in from elsewhere does not wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};

use super::notices::{About, Notices, short};
use super::problem::Problem;

/// How long somebody who guesses passwords waits for each answer, and for the next try at first.
const WRONG: Duration = Duration::from_millis(300);
/// The longest wait between two tries.
const LONGEST: Duration = Duration::from_secs(30);
/// Whoever would wait longer for a turn is sent away.
const TURN: Duration = Duration::from_secs(5);
/// How long wrong passwords are remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Users and addresses that are remembered: one more has the oldest forgotten.
const MOST: usize = 4096;
/// Wrong passwords that are answered at once.
const ANSWERS: usize = 16;

/// Whose passwords were guessed, and from where.
pub(super) struct Guesses {
    wrong: Mutex<HashMap<(String, IpAddr), Wrong>>,
    answers: Semaphore,
}

struct Wrong {
    count: u32,
    last: Instant,
    /// When the next try may be.
    next: Instant,
}

impl Default for Guesses {
    fn default() -> Self {
        Self { wrong: Mutex::default(), answers: Semaphore::new(ANSWERS) }
    }
}

impl Guesses {
    /// Waits until a user may try a password.
    ///
    /// # Errors
    ///
    /// So many were wrong that it would be long.
    pub(super) async fn turn(&self, user: &str, address: IpAddr) -> Result<(), Problem> {
        let turn = match self.wrong.lock().get_mut(&(user.to_owned(), address)) {
            Some(wrong) if wrong.last.elapsed() < REMEMBERED => {
                let now = Instant::now();
                let turn = wrong.next.max(now);
                if turn - now > TURN {
                    let seconds = (turn - now).as_secs();
                    let what = format!("too many wrong passwords of user \"{user}\": try again in {seconds} s");
                    return Err(Problem::fatal("28000", what));
                }
                wrong.next = turn + pause(wrong.count);
                turn
            }
            _ => return Ok(()),
        };
        sleep_until(turn).await;
        Ok(())
    }

    /// Notes that a password was right.
    pub(super) fn right(&self, user: &str, address: IpAddr) {
        self.wrong.lock().remove(&(user.to_owned(), address));
    }

    /// Notes that a password was wrong, and waits a moment.
    pub(super) async fn wrong(&self, user: &str, address: IpAddr, notices: &Notices) {
        let count = self.note(user, address);
        notices.of(About::Logins, || {
            let user = short(user);
            format!("a login failed: wrong password of user \"{user}\" from {address}, {count} times in a row")
        });
        let _answer = self.answers.acquire().await;
        sleep(WRONG).await;
    }

    fn note(&self, user: &str, address: IpAddr) -> u32 {
        let (mut all, now) = (self.wrong.lock(), Instant::now());
        let key = (user.to_owned(), address);
        if all.len() >= MOST && !all.contains_key(&key) {
            all.retain(|_, wrong| wrong.last.elapsed() < REMEMBERED);
            if all.len() >= MOST
                && let Some(oldest) = all.iter().min_by_key(|(_, wrong)| wrong.last).map(|(key, _)| key.clone())
            {
                all.remove(&oldest);
            }
        }
        let wrong = all.entry(key).or_insert(Wrong { count: 0, last: now, next: now });
        if wrong.last.elapsed() >= REMEMBERED {
            wrong.count = 0;
        }
        wrong.count = wrong.count.saturating_add(1);
        wrong.last = now;
        wrong.next = wrong.next.max(now + pause(wrong.count));
        wrong.count
    }
}

/// Between a try and the next one, after so many that were wrong.
fn pause(count: u32) -> Duration {
    WRONG.saturating_mul(1 << count.saturating_sub(1).min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn tries_wait_longer_and_those_from_elsewhere_do_not() {
        let (guesses, notices) = (Guesses::default(), Notices::new(|_| {}));
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let began = Instant::now();
        for _ in 0..3 {
            guesses.turn("ada", here).await.unwrap();
            guesses.wrong("ada", here, &notices).await;
        }
        // 0.3 s for each answer; the waits of 0.3 and 0.6 s begin with them.
        assert!(began.elapsed() >= Duration::from_millis(1200));
        for _ in 0..6 {
            guesses.note("ada", here);
        }
        let refused = guesses.turn("ada", here).await.unwrap_err();
        assert_eq!(refused.code, "28000");
        assert!(refused.message.contains("try again in 29 s"), "{}", refused.message);
        let began = Instant::now();
        guesses.turn("ada", there).await.unwrap();
        guesses.turn("bob", here).await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(100));
        guesses.right("ada", here);
        guesses.turn("ada", here).await.unwrap();
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let guesses = Guesses::default();
        for number in 0..MOST + 10 {
            guesses.note(&format!("user{number}"), IpAddr::from([10, 0, 0, 1]));
        }
        assert_eq!(guesses.wrong.lock().len(), MOST);
    }
}
