//! A query under way for a client: admitted, run, and sent row by row.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{ParamValues, ScalarValue};
use pagecast_sql::query::Query;
use tokio::io::AsyncWrite;
use tokio::sync::OwnedSemaphorePermit;

use super::problem::Problem;
use super::rows::{Prepared, Rows};
use super::server::Client;
use super::statements;
use super::stop::Stop;
use super::wire::Writer;

/// Places among the queries that run.
pub(super) type Places = (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

/// Rows of a statement, of which some may have been sent.
pub(super) struct Execution {
    query: Query,
    rows: Rows,
    /// Rows that have come and are being sent.
    batch: Option<Batch>,
    /// Not held while nobody asks for rows: a cursor that is left open keeps nobody else out.
    places: Option<Places>,
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

impl Execution {
    pub(super) async fn start(
        client: &Client,
        statement: &statements::Rows,
        values: Vec<ScalarValue>,
        formats: &[i16],
        stop: &mut Stop,
    ) -> Result<Self, Problem> {
        let (query, places) = begin(client, statement, values, stop).await?;
        let rows = Rows::of(&statement.schema, formats);
        Ok(Self { query, rows, batch: None, places: Some(places) })
    }

    /// Sends up to `limit` rows, 0 for all.
    pub(super) async fn fetch<W: AsyncWrite + Unpin>(
        &mut self,
        client: &Client,
        limit: usize,
        writer: &mut Writer<W>,
        stop: &mut Stop,
    ) -> Result<Fetched, Problem> {
        if self.places.is_none() {
            self.places = Some(stop.of(admit(client)).await?);
        }
        let mut sent = 0;
        loop {
            let before = sent;
            if let Some(Batch { rows, prepared, next }) = &mut self.batch {
                while *next < rows.num_rows() && (limit == 0 || sent < limit) {
                    prepared.write(*next, &mut writer.buffer)?;
                    (*next, sent) = (*next + 1, sent + 1);
                    if writer.is_full() {
                        stop.of(writer.flush()).await?;
                    }
                }
                client.entry.sent(sent - before);
                if limit != 0 && sent == limit {
                    self.places = None;
                    return Ok(Fetched { rows: sent, suspended: true });
                }
            }
            self.batch = match stop.of(self.query.next()).await? {
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

/// Begins a query as soon as there is a place for it.
pub(super) async fn begin(
    client: &Client,
    statement: &statements::Rows,
    values: Vec<ScalarValue>,
    stop: &mut Stop,
) -> Result<(Query, Places), Problem> {
    let places = stop.of(admit(client)).await?;
    let bound = !values.is_empty();
    let query = stop.of(statement.execute(&client.account.ctx, ParamValues::from(values), bound)).await?;
    if query.schema().fields().len() != statement.schema.fields().len() {
        return Err(Problem::error("0A000", "the statement has other columns than when it was prepared"));
    }
    Ok((query, places))
}

/// Waits for a place: first among the user's queries, if they are limited, then among all.
async fn admit(client: &Client) -> Result<Places, Problem> {
    let closed = |_| Problem::fatal("57P01", "the server is shut down");
    let own = match &client.account.places {
        Some(places) => Some(Arc::clone(places).acquire_owned().await.map_err(closed)?),
        None => None,
    };
    let place = Arc::clone(&client.server.places).acquire_owned().await.map_err(closed)?;
    Ok((own, place))
}
