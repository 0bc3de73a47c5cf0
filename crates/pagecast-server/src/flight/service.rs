//! What clients ask: statements, prepared statements, and what there is.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginTransactionRequest, ActionBeginTransactionResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, ActionEndTransactionRequest,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{Action, FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::{Request, Response, Status};

use super::line::Busy;
use super::session::Session;
use super::{information, metadata, parameters, rows};
use crate::problem::Problem;
use crate::server::Server;
use crate::statements::{Statement, Work};

/// What a transaction is called: there is nothing in it.
const TRANSACTION: &[u8] = b"read only";

/// Answers those who were let in.
pub(super) struct Service {
    server: Arc<Server>,
    information: SqlInfoData,
    types: XdbcTypeInfoData,
}

/// Who asks.
struct Asked {
    session: Arc<Session>,
    busy: Arc<Busy>,
}

type Rows = Response<<Service as FlightService>::DoGetStream>;

impl Asked {
    fn by<T>(request: &Request<T>) -> Result<Self, Status> {
        let (session, busy) = (request.extensions().get().cloned(), request.extensions().get().cloned());
        match (session, busy) {
            (Some(session), Some(busy)) => Ok(Self { session, busy }),
            _ => Err(Problem::error("28000", "nobody was let in with this request").into()),
        }
    }

    /// Runs a statement, and sends its rows if it gives some.
    async fn run(self, statement: &Statement, values: Vec<ScalarValue>) -> Result<Rows, Problem> {
        parameters::check_count(values.len(), statement.parameters.len())?;
        let Work::Rows(work) = &statement.work else {
            self.change(statement)?;
            return Ok(Response::new(rows::encoded(Arc::new(Schema::empty()), futures::stream::empty())));
        };
        Ok(Response::new(rows::run(&self.session, statement, work, values, self.busy).await?))
    }

    /// Does what a statement without rows wants of the connection.
    fn change(&self, statement: &Statement) -> Result<(), Problem> {
        match &statement.work {
            Work::Empty => Ok(()),
            Work::Own(own) => self.session.own(own),
            Work::Rows(_) => Err(Problem::error("42601", "this statement gives rows; ask for them by a query")),
            Work::Declare { .. } | Work::Fetch { .. } | Work::Copy { .. } => {
                Err(Problem::error("0A000", "Flight SQL sends rows as they are read; write the SELECT alone"))
            }
            Work::Prepare { .. } | Work::Execute { .. } => Err(Problem::error(
                "0A000",
                "Flight SQL prepares statements without PREPARE; write the SELECT with ? and give the driver its values",
            )),
        }
    }
}

/// The columns that a statement gives; none if it gives no rows.
fn columns(statement: &Statement) -> Arc<Schema> {
    match &statement.work {
        Work::Rows(rows) => rows::sent(&rows.schema),
        _ => Arc::new(Schema::empty()),
    }
}

/// Says what a ticket gives.
fn told(
    schema: &Schema,
    ticket: &impl ProstMessageExt,
    descriptor: FlightDescriptor,
) -> Result<Response<FlightInfo>, Status> {
    let ticket = Ticket::new(ticket.as_any().encode_to_vec());
    let info = FlightInfo::new().with_endpoint(FlightEndpoint::new().with_ticket(ticket)).with_descriptor(descriptor);
    let info = info.try_with_schema(schema).map_err(|error| Status::from(FlightError::from(error)))?;
    Ok(Response::new(info))
}

impl Service {
    pub(super) fn new(server: &Arc<Server>) -> anyhow::Result<Self> {
        let (information, types) = (information::server(&server.limits)?, information::types()?);
        Ok(Self { server: Arc::clone(server), information, types })
    }

    fn metadata(&self) -> metadata::Metadata {
        metadata::Metadata::of(&self.server)
    }
}

#[async_trait]
impl FlightSqlService for Service {
    type FlightService = Self;

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let statement = Asked::by(&request)?.session.plan(&query.query).await?;
        // Whoever has the ticket may run it: it says no more than its text.
        let ticket = TicketStatementQuery { statement_handle: query.query.into() };
        told(&columns(&statement), &ticket, request.into_inner())
    }

    async fn do_get_statement(&self, ticket: TicketStatementQuery, request: Request<Ticket>) -> Result<Rows, Status> {
        let asked = Asked::by(&request)?;
        let sql = std::str::from_utf8(&ticket.statement_handle);
        let sql = sql.map_err(|_| Problem::error("22021", "the ticket's statement is no UTF-8"))?;
        let statement = asked.session.plan(sql).await?;
        Ok(asked.run(&statement, Vec::new()).await?)
    }

    async fn do_put_statement_update(
        &self,
        update: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let asked = Asked::by(&request)?;
        let statement = asked.session.plan(&update.query).await?;
        asked.change(&statement)?;
        Ok(0)
    }

    async fn do_put_statement_ingest(
        &self,
        _ingest: CommandStatementIngest,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Problem::error("25006", "clients of pagecast serve read tables, and change nothing").into())
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let asked = Asked::by(&request)?;
        let statement = asked.session.plan(&query.query).await?;
        let named =
            |(number, (_, kind)): (usize, &(u32, _))| Field::new(format!("${}", number + 1), Clone::clone(kind), true);
        let parameters: Vec<Field> = statement.parameters.iter().enumerate().map(named).collect();
        // Without columns it is an update: JDBC decides by that.
        let dataset_schema = match &statement.work {
            Work::Rows(_) => rows::message(&columns(&statement))?,
            _ => Bytes::new(),
        };
        let parameter_schema = match parameters.is_empty() {
            true => Bytes::new(),
            false => rows::message(&rows::sent(&Schema::new(parameters)))?,
        };
        let prepared_statement_handle = asked.session.keep(statement, query.query.len())?;
        Ok(ActionCreatePreparedStatementResult { prepared_statement_handle, dataset_schema, parameter_schema })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        Asked::by(&request)?.session.close(&query.prepared_statement_handle);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let asked = Asked::by(&request)?;
        let prepared = asked.session.prepared(&query.prepared_statement_handle)?;
        let values = async {
            let data = request.into_inner().into_peekable().map_err(FlightError::from);
            let mut rows = FlightRecordBatchStream::new_from_flight_data(data);
            let mut values = None;
            while let Some(batch) = rows.next().await {
                let batch = batch.map_err(|error| Problem::error("08P01", format!("the parameters: {error}")))?;
                match (batch.num_rows(), &values) {
                    (0, _) => {}
                    (1, None) => values = Some(parameters::bound(&batch, &prepared.statement.parameters)?),
                    _ => return Err(Problem::error("0A000", "a query takes one row of parameters")),
                }
            }
            values.ok_or_else(|| Problem::error("08P01", "no row of parameters came"))
        };
        let values = asked.session.stop_alone().of(values).await?;
        *prepared.values.lock() = values;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(query.prepared_statement_handle) })
    }

    async fn do_put_prepared_statement_update(
        &self,
        update: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let asked = Asked::by(&request)?;
        let prepared = asked.session.prepared(&update.prepared_statement_handle)?;
        asked.change(&prepared.statement)?;
        Ok(0)
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let prepared = Asked::by(&request)?.session.prepared(&query.prepared_statement_handle)?;
        told(&columns(&prepared.statement), &query, request.into_inner())
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Rows, Status> {
        let asked = Asked::by(&request)?;
        let prepared = asked.session.prepared(&query.prepared_statement_handle)?;
        let values = prepared.values.lock().clone();
        Ok(asked.run(&prepared.statement, values).await?)
    }

    async fn do_action_begin_transaction(
        &self,
        _query: ActionBeginTransactionRequest,
        _request: Request<Action>,
    ) -> Result<ActionBeginTransactionResult, Status> {
        Ok(ActionBeginTransactionResult { transaction_id: Bytes::from_static(TRANSACTION) })
    }

    async fn do_action_end_transaction(
        &self,
        _query: ActionEndTransactionRequest,
        _request: Request<Action>,
    ) -> Result<(), Status> {
        Ok(())
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&query.into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, _request: Request<Ticket>) -> Result<Rows, Status> {
        metadata::rows(metadata::Metadata::catalogs(query))
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&query.clone().into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, _request: Request<Ticket>) -> Result<Rows, Status> {
        metadata::rows(self.metadata().schemas(query))
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&query.clone().into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_tables(&self, query: CommandGetTables, _request: Request<Ticket>) -> Result<Rows, Status> {
        metadata::rows(self.metadata().tables(query).await)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&query.into_builder().schema(), &query, request.into_inner())
    }

    async fn do_get_table_types(&self, query: CommandGetTableTypes, _request: Request<Ticket>) -> Result<Rows, Status> {
        metadata::rows(metadata::Metadata::table_types(query))
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&self.information.schema(), &query, request.into_inner())
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, _request: Request<Ticket>) -> Result<Rows, Status> {
        metadata::rows(query.into_builder(&self.information).build())
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&self.types.schema(), &query, request.into_inner())
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        _request: Request<Ticket>,
    ) -> Result<Rows, Status> {
        metadata::rows(query.into_builder(&self.types).build())
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&metadata::primary_keys(), &query, request.into_inner())
    }

    async fn do_get_primary_keys(
        &self,
        _query: CommandGetPrimaryKeys,
        _request: Request<Ticket>,
    ) -> Result<Rows, Status> {
        metadata::nothing(metadata::primary_keys())
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&metadata::foreign_keys(), &query, request.into_inner())
    }

    async fn do_get_exported_keys(
        &self,
        _query: CommandGetExportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Rows, Status> {
        metadata::nothing(metadata::foreign_keys())
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&metadata::foreign_keys(), &query, request.into_inner())
    }

    async fn do_get_imported_keys(
        &self,
        _query: CommandGetImportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Rows, Status> {
        metadata::nothing(metadata::foreign_keys())
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        told(&metadata::foreign_keys(), &query, request.into_inner())
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        _request: Request<Ticket>,
    ) -> Result<Rows, Status> {
        metadata::nothing(metadata::foreign_keys())
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
