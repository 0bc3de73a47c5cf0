//! A query under way for a client: admitted, run, and sent row by row.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{ParamValues, ScalarValue};
use pagecast_sql::Held;
use pagecast_sql::query::{Ended, Query};
use tokio::io::AsyncWrite;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::catalog;
use super::keeping::Kept;
use super::places::{Need, Places, admit};
use super::problem::Problem;
use super::rows::{Prepared, Rows};
use super::server::Client;
use super::statements;
use super::stop::Stop;
use super::wire::Writer;

/// How long a client may take to read before its query's place is another's. Many such clients come
/// one after the other, so that it is a small part of a second.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// How long a client may take to read a little whose query may not be kept without its place:
/// others wait for that.
pub(super) const SLOW: Duration = Duration::from_secs(2);

/// Rows of a statement, of which some may have been sent.
pub(super) struct Execution {
    query: Query,
    rows: Rows,
    /// Rows that have come and are being sent.
    batch: Option<Batch>,
    standing: Standing,
}

/// A query's place, or what it keeps while nobody asks for its rows: a cursor that is left open
/// and a client that does not read keep nobody else out.
pub(super) struct Standing {
    need: Need,
    held: Held,
    places: Option<Places>,
    /// It needs no place any more.
    is_large: bool,
    kept: Option<Kept>,
}

struct Batch {
    rows: RecordBatch,
    prepared: Prepared,
    next: usize,
}

/// How far a fetch has come.
pub(super) struct Fetched {
    pub(super) rows: usize,
    /// Whether it stopped at its limit.
    pub(super) suspended: bool,
}

impl Standing {
    /// The next rows of its query. One that waits for the turn of large statements leaves its place
    /// to others: it is the turn that it runs in.
    pub(super) async fn next(&mut self, query: &mut Query) -> Result<Option<RecordBatch>, Ended> {
        let held = &self.held;
        if !self.is_large {
            tokio::select! {
                biased;
                next = query.next() => return next,
                () = held.is_large() => {}
            }
            (self.is_large, self.places) = (true, None);
        }
        query.next().await
    }

    /// Gives the place to others. What the query holds of memory stays counted, and so many bytes
    /// that are on their way. If that may not be kept, the place is free with the query and not
    /// before: else the next one begins beside it.
    pub(super) fn wait(&mut self, client: &Client, on_its_way: usize, what: &str) -> Result<(), Problem> {
        self.kept = Some(client.account.keeper.keep(self.held.bytes() + on_its_way, what)?);
        self.places = None;
        Ok(())
    }

    /// Waits for a place again, if it was given away.
    pub(super) async fn go_on(&mut self, client: &Client) -> Result<(), Problem> {
        if self.places.is_none() && !self.is_large {
            self.places = Some(admit(client, self.need).await?);
        }
        self.kept = None;
        Ok(())
    }
}

impl Execution {
    pub(super) async fn start(
        client: &Client,
        statement: &statements::Rows,
        values: Vec<ScalarValue>,
        formats: &[i16],
        stop: &mut Stop,
    ) -> Result<Self, Problem> {
        let (query, standing) = begin(client, statement, values, stop).await?;
        let rows = Rows::of(&statement.schema, formats);
        Ok(Self { query, rows, batch: None, standing })
    }

    /// Sends up to `limit` rows, 0 for all.
    pub(super) async fn fetch<W: AsyncWrite + Unpin>(
        &mut self,
        client: &Client,
        limit: usize,
        writer: &mut Writer<W>,
        stop: &mut Stop,
    ) -> Result<Fetched, Problem> {
        stop.of(self.standing.go_on(client)).await?;
        let held = self.standing.held.clone();
        let fetched = held.counted(self.send(client, limit, writer, stop)).await?;
        if fetched.suspended {
            self.standing.wait(client, 0, "a portal that is suspended")?;
        }
        Ok(fetched)
    }

    async fn send<W: AsyncWrite + Unpin>(
        &mut self,
        client: &Client,
        limit: usize,
        writer: &mut Writer<W>,
        stop: &mut Stop,
    ) -> Result<Fetched, Problem> {
        let mut sent = 0;
        loop {
            let before = sent;
            if let Some(Batch { rows, prepared, next }) = &mut self.batch {
                while *next < rows.num_rows() && (limit == 0 || sent < limit) {
                    prepared.write(*next, &mut writer.buffer)?;
                    (*next, sent) = (*next + 1, sent + 1);
                    if writer.is_full() {
                        flush(&mut self.standing, client, writer, stop).await?;
                    }
                }
                client.entry.sent(sent - before);
                if limit != 0 && sent == limit {
                    return Ok(Fetched { rows: sent, suspended: true });
                }
            }
            self.batch = match stop.of(self.standing.next(&mut self.query)).await? {
                Some(rows) => Some(Batch { prepared: self.rows.prepare(&rows)?, rows, next: 0 }),
                None => return Ok(Fetched { rows: sent, suspended: false }),
            };
        }
    }

    /// From here on rows are written in these formats.
    pub(super) fn write_as(&mut self, schema: &SchemaRef, formats: &[i16]) -> Result<(), Problem> {
        self.rows = Rows::of(schema, formats);
        if let Some(batch) = &mut self.batch {
            batch.prepared = self.rows.prepare(&batch.rows)?;
        }
        Ok(())
    }
}

/// Sends what waits. A client that does not read for a while gives its query's place to others.
pub(super) async fn flush<W: AsyncWrite + Unpin>(
    standing: &mut Standing,
    client: &Client,
    writer: &mut Writer<W>,
    stop: &mut Stop,
) -> Result<(), Problem> {
    if let Ok(sent) = timeout(PATIENCE, stop.of(writer.flush())).await {
        // Rows take a thread as long as the network takes them: others have their turn between.
        yield_now().await;
        return sent;
    }
    if let Err(refused) = standing.wait(client, 0, "a statement whose client does not read") {
        return timeout(SLOW, stop.of(writer.flush())).await.unwrap_or(Err(refused));
    }
    stop.of(writer.flush()).await?;
    stop.of(standing.go_on(client)).await
}

/// Begins a query as soon as there is a place for it.
pub(super) async fn begin(
    client: &Client,
    statement: &statements::Rows,
    values: Vec<ScalarValue>,
    stop: &mut Stop,
) -> Result<(Query, Standing), Problem> {
    let need = Need::of(&statement.plan);
    let places = stop.of(admit(client, need)).await?;
    let bound = !values.is_empty();
    catalog::apply_settings(&client.account.ctx);
    let query = stop.of(statement.execute(&client.account.ctx, ParamValues::from(values), bound)).await?;
    if query.schema().fields().len() != statement.schema.fields().len() {
        return Err(Problem::error("0A000", "the statement has other columns than when it was prepared"));
    }
    let held = query.held().clone();
    client.entry.hold(held.clone());
    Ok((query, Standing { need, held, places: Some(places), is_large: false, kept: None }))
}
