//! The columns of a table whose files need not have the same ones.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{DataFusionError, plan_datafusion_err};
use datafusion::datasource::listing::{ListingOptions, ListingTableUrl};
use datafusion::execution::SessionState;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectMeta;

/// The columns of all files at these places, in the order of the files. A column that a file lacks
/// is NULL in its rows, so that it may be NULL in the table, whatever the other files say.
pub(crate) async fn merged(
    options: &ListingOptions,
    state: &SessionState,
    urls: &[ListingTableUrl],
) -> Result<SchemaRef, DataFusionError> {
    let mut schemas = Vec::new();
    for url in urls {
        let store = &state.runtime_env().object_store(url)?;
        let listed = url.list_all_files(state, store.as_ref(), &options.file_extension).await?;
        // A file without bytes has no columns to speak of.
        let mut files: Vec<ObjectMeta> =
            listed.try_filter(|file| std::future::ready(file.size > 0)).try_collect().await?;
        files.sort_unstable_by(|one, other| one.location.cmp(&other.location));
        let of_file = |file: ObjectMeta| async move {
            options.format.infer_schema(state, store, std::slice::from_ref(&file)).await
        };
        let together = state.config_options().execution.meta_fetch_concurrency.get();
        let of_url: Vec<SchemaRef> = stream::iter(files).map(of_file).buffered(together).try_collect().await?;
        schemas.extend(of_url);
    }
    if schemas.is_empty() {
        return Err(plan_datafusion_err!("there is no file with rows to take the columns from"));
    }
    let merged = Schema::try_merge(schemas.iter().map(|schema| schema.as_ref().clone()))?;
    let fields = loosened(merged.fields(), &schemas.iter().map(|schema| schema.fields()).collect::<Vec<_>>());
    Ok(Arc::new(Schema::new_with_metadata(fields, merged.metadata)))
}

/// `merged`, in which what one of `files` lacks may be NULL.
fn loosened(merged: &Fields, files: &[&Fields]) -> Fields {
    let field = |field: &FieldRef| -> Field {
        let of_files: Vec<&FieldRef> =
            files.iter().filter_map(|fields| fields.find(field.name()).map(|(_, field)| field)).collect();
        let nullable = field.is_nullable() || of_files.len() < files.len();
        let loose = field.as_ref().clone().with_nullable(nullable);
        let DataType::Struct(parts) = field.data_type() else { return loose };
        let of_files = of_files.iter().filter_map(|field| match field.data_type() {
            DataType::Struct(parts) => Some(parts),
            _ => None,
        });
        loose.with_data_type(DataType::Struct(loosened(parts, &of_files.collect::<Vec<_>>())))
    };
    merged.iter().map(field).collect()
}
