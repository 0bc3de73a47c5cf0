//! Errors that come from a worker say which worker it was.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use url::Url;

/// The channels of another resolver. A connection that breaks says no more than that it broke; here
/// it gets a name.
pub(crate) struct NamedChannels(pub(crate) Arc<dyn ChannelResolver + Send + Sync>);

#[async_trait]
impl ChannelResolver for NamedChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let name: Arc<str> = url.as_str().into();
        let inner = self.0.get_worker_client_for_url(url).await.map_err(|error| named(&name, error))?;
        Ok(Box::new(NamedChannel { name, inner }))
    }
}

struct NamedChannel {
    name: Arc<str>,
    inner: Box<dyn WorkerChannel>,
}

fn named(name: &str, error: DataFusionError) -> DataFusionError {
    error.context(format!("worker {name}"))
}

fn each_named<T: 'static>(name: &Arc<str>, stream: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
    let name = Arc::clone(name);
    stream.map(move |item| item.map_err(|error| named(&name, error))).boxed()
}

#[async_trait]
impl WorkerChannel for NamedChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let answers = self.inner.coordinator_channel(headers, request, messages, metrics, context).await;
        answers.map(|answers| each_named(&self.name, answers)).map_err(|error| named(&self.name, error))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let partitions = self.inner.execute_task(headers, request, metrics, context).await;
        let each = |partitions: Vec<_>| partitions.into_iter().map(|rows| each_named(&self.name, rows)).collect();
        partitions.map(each).map_err(|error| named(&self.name, error))
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await.map_err(|error| named(&self.name, error))
    }
}
