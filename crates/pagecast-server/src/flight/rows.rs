//! Rows on their way to a client: a task brings them, so that a client that does not read them
//! meets the same end as one that does.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use bytes::Bytes;
use datafusion::arrow::ipc::writer::IpcWriteOptions;
use datafusion::common::ScalarValue;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use pagecast_sql::query::Query;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Status;

use super::line::Busy;
use super::session::Session;
use crate::entries::Registered;
use crate::execution::{self, PATIENCE, SLOW, Standing};
use crate::problem::Problem;
use crate::server::{Client, KEY_BYTES};
use crate::statements::{Rows, Statement};
use crate::stop::{Closing, Stop, shutdown};

/// Messages on their way to a client.
pub(super) type Sent = BoxStream<'static, Result<FlightData, Status>>;

/// Rows, or their end.
type Brought = Result<Option<RecordBatch>, Problem>;

/// Batches that wait for the client.
const AHEAD: usize = 1;

/// A query, and all that it holds until its last row is sent.
struct Sending {
    query: Query,
    stop: Stop,
    schema: SchemaRef,
    registered: Registered,
    client: Client,
    standing: Standing,
    /// Bytes that the query has handed on, and that may not be read yet.
    on_its_way: usize,
}

/// Runs a statement that gives rows. They come as long as the stream is held.
pub(super) async fn run(
    session: &Session,
    statement: &Statement,
    rows: &Rows,
    values: Vec<ScalarValue>,
    busy: Arc<Busy>,
) -> Result<BoxStream<'static, Result<FlightData, Status>>, Problem> {
    let (server, account) = (Arc::clone(&session.server), Arc::clone(&session.account));
    let registered = server.register(&session.user, KEY_BYTES, &session.settings)?;
    let entry = Arc::clone(&registered.entry);
    entry.begin(Arc::clone(&statement.text));
    let mut stop = session.stop_of(&entry);
    let client = Client { server, account, entry };
    let (query, standing) = execution::begin(&client, rows, values, &mut stop).await?;
    let schema = sent(&rows.schema);
    let sending = Sending { query, stop, schema: Arc::clone(&schema), registered, client, standing, on_its_way: 0 };
    let (sender, batches) = mpsc::channel(AHEAD);
    let mut task = JoinSet::new();
    task.spawn(sending.bring_all(sender, busy));
    let batches = stream::try_unfold((batches, task), |(mut batches, task)| async move {
        match batches.recv().await {
            Some(Ok(Some(batch))) => Ok(Some((batch, (batches, task)))),
            Some(Ok(None)) => Ok(None),
            Some(Err(problem)) => Err(FlightError::from(Status::from(problem))),
            None => Err(FlightError::from(Status::from(shutdown(Closing::Now)))),
        }
    });
    Ok(encoded(schema, batches))
}

impl Sending {
    /// Brings all rows, and the end. Whoever then leaves what is on its way unread is hung up on:
    /// only that takes the rows back. The stream ends this task once it is read.
    async fn bring_all(mut self, sender: mpsc::Sender<Brought>, busy: Arc<Busy>) {
        let held = self.query.held().clone();
        let ended = held.counted(self.all(&sender)).await.map(|()| None);
        let kept = self.client.account.keeper.keep(self.on_its_way, "rows that a client does not read");
        let patience = if kept.is_ok() { self.client.server.limits.write_timeout } else { Some(PATIENCE) };
        // The query goes with all that it holds, before others hear of its end.
        drop(self);
        // There is room for the end once the last batch is taken. None is needed for who has
        // dropped the rows: the connection may have other requests.
        match within(patience, sender.reserve()).await {
            Some(Ok(room)) => room.send(ended),
            Some(Err(_)) => return,
            None => return busy.hang_up(),
        }
        within(patience, sender.closed()).await.unwrap_or_else(|| busy.hang_up());
    }

    async fn all(&mut self, sender: &mpsc::Sender<Brought>) -> Result<(), Problem> {
        while let Some(batch) = self.stop.of(self.standing.next(&mut self.query)).await? {
            let count = batch.num_rows();
            let batch = as_sent(&batch, &self.schema)?;
            // A message is written, and so many wait behind it.
            self.on_its_way = (AHEAD + 1) * bytes_of(&batch);
            self.hand_on(batch, sender).await?;
            self.registered.entry.sent(count);
        }
        Ok(())
    }

    /// Hands a batch on as soon as the client takes it. If it does not for a while, the place is
    /// another's.
    async fn hand_on(&mut self, batch: RecordBatch, sender: &mpsc::Sender<Brought>) -> Result<(), Problem> {
        // An error is that the client has gone: then this task ends too.
        let room = async || sender.reserve().await.map_err(|_| crate::stop::left());
        if let Ok(room) = timeout(PATIENCE, self.stop.of(room())).await {
            room?.send(Ok(Some(batch)));
            return Ok(());
        }
        let waits = self.standing.wait(&self.client, self.on_its_way, "a statement whose client does not read");
        if let Err(refused) = waits {
            let room = timeout(SLOW, self.stop.of(room())).await.map_err(|_| refused)??;
            room.send(Ok(Some(batch)));
            return Ok(());
        }
        let late = || Problem::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let patience = self.client.server.limits.write_timeout;
        let room = async { within(patience, room()).await.ok_or_else(late)? };
        self.stop.of(room).await?.send(Ok(Some(batch)));
        self.stop.of(self.standing.go_on(&self.client)).await
    }
}

/// What comes of a future, if it comes in time.
async fn within<F: Future>(patience: Option<Duration>, future: F) -> Option<F::Output> {
    match patience {
        Some(patience) => timeout(patience, future).await.ok(),
        None => Some(future.await),
    }
}

/// Batches as messages, after one with their schema.
pub(super) fn encoded(
    schema: SchemaRef,
    batches: impl stream::Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> Sent {
    FlightDataEncoderBuilder::new().with_schema(schema).build(batches).map_err(Status::from).boxed()
}

/// A schema as its own message, as Flight's answers carry it.
pub(super) fn message(schema: &Schema) -> Result<Bytes, Problem> {
    let options = IpcWriteOptions::default();
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &options));
    message.map(|message| message.0).map_err(|error| Problem::from(anyhow::Error::new(error)))
}

/// The columns that a client is sent. Views, dictionaries and the like are written out: not every
/// client's Arrow knows them.
pub(super) fn sent(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
    Arc::new(Schema::new(fields))
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let plain = plain(field.data_type());
    Arc::new(Field::new(field.name(), plain, field.is_nullable()))
}

fn plain(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(item) | DataType::ListView(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}

fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().filter_map(|column| column.to_data().get_slice_memory_size().ok()).sum()
}

fn as_sent(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Problem> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<Vec<_>, _>>();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let made = columns.and_then(|columns| RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options));
    made.map_err(|error| Problem::from(anyhow::Error::new(error)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{ArrayRef, AsArray, DictionaryArray, StringViewArray};
    use arrow::datatypes::Int8Type;

    #[test]
    fn columns_are_written_out() {
        let words: DictionaryArray<Int8Type> = ["a", "b", "a"].into_iter().collect();
        let columns: Vec<(&str, ArrayRef)> =
            vec![("v", Arc::new(StringViewArray::from(vec!["x", "y", "z"]))), ("d", Arc::new(words))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let batch = as_sent(&batch, &sent(&batch.schema())).unwrap();
        let texts = |column: usize| batch.column(column).as_string::<i32>().iter().flatten().collect::<String>();
        assert_eq!((texts(0), texts(1)), ("xyz".to_owned(), "aba".to_owned()));
        let list = DataType::new_list(DataType::Utf8View, true);
        assert_eq!(plain(&list), DataType::new_list(DataType::Utf8, true));
    }
}
