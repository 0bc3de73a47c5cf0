//! The columns of a table whose files need not have the same ones.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTableUrl};
use datafusion::execution::SessionState;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use pagecast_corrections::widening;

use crate::keys::is_shown;
use crate::unpacked::packed;

/// A file that was looked at.
struct InFile {
    /// For people.
    name: String,
    meta: ObjectMeta,
    store: Arc<dyn ObjectStore>,
    schema: SchemaRef,
}

/// The columns of all files at these places, in the order of the files, as
/// [`widening`] joins them.
pub(crate) async fn merged(
    options: &ListingOptions,
    state: &SessionState,
    urls: &[ListingTableUrl],
) -> Result<SchemaRef, DataFusionError> {
    let mut found = Vec::new();
    for url in urls {
        let store = &state.runtime_env().object_store(url)?;
        let listed = url.list_all_files(state, store.as_ref(), &options.file_extension).await?;
        // A file without bytes has no columns to speak of.
        let has_columns = |file: &ObjectMeta| file.size > 0 && is_shown(std::slice::from_ref(url), &file.location);
        let mut files: Vec<ObjectMeta> =
            listed.try_filter(|file| std::future::ready(has_columns(file))).try_collect().await?;
        files.sort_unstable_by(|one, other| one.location.cmp(&other.location));
        let of_file = |meta: ObjectMeta| async move {
            let schema = options.format.infer_schema(state, store, std::slice::from_ref(&meta)).await?;
            let name = name_of(url, &meta.location);
            Ok::<_, DataFusionError>(InFile { name, meta, store: Arc::clone(store), schema })
        };
        let together = state.config_options().execution.meta_fetch_concurrency.get();
        let of_url: Vec<InFile> = stream::iter(files).map(of_file).buffered(together).try_collect().await?;
        found.extend(of_url);
    }
    if found.is_empty() {
        return Err(plan_datafusion_err!("there is no file with rows to take the columns from"));
    }
    let schemas: Vec<_> = found.iter().map(|file| (file.name.clone(), Arc::clone(&file.schema))).collect();
    let merged = widening::merged(&schemas)?;
    for file in &found {
        for field in file.schema.fields() {
            check_type(options, state, file, field, merged.field_with_name(field.name())?).await?;
        }
    }
    Ok(Arc::new(merged))
}

/// The name, for people, of a file in the store of this place.
pub(crate) fn name_of(url: &ListingTableUrl, file: &Path) -> String {
    let store = url.object_store();
    format!("{}{file}", packed(store.as_str()).trim_start_matches("file://"))
}

/// Fails if a column of the file cannot be read as the table's.
async fn check_type(
    options: &ListingOptions,
    state: &SessionState,
    file: &InFile,
    field: &Field,
    of_table: &Field,
) -> Result<(), DataFusionError> {
    let (name, now, kind) = (&file.name, field.data_type(), of_table.data_type());
    if now == kind {
        return Ok(());
    }
    if options.format.is::<ArrowFormat>() {
        let column = field.name();
        return plan_err!(
            "{name}: column {column} is {now} here and {kind} in another file; Arrow files are read as they are"
        );
    }
    let is_finest = |kind: &DataType| matches!(kind, DataType::Timestamp(TimeUnit::Nanosecond, _));
    if is_finest(now) || !is_finest(kind) {
        return Ok(());
    }
    // Nanoseconds of 64 bits end in 2262. Reading would fail, and not name the file.
    let own = Arc::new(Schema::new(vec![field.clone()]));
    let known = options.format.infer_stats(state, &file.store, own, &file.meta).await?;
    let bounds = known.column_statistics.iter().flat_map(|known| [&known.min_value, &known.max_value]);
    for bound in bounds {
        let (Precision::Exact(value) | Precision::Inexact(value)) = bound else { continue };
        if value.cast_to(kind).is_err() {
            let column = field.name();
            return plan_err!(
                "{name}: column {column} has {value} of {now}, which is no time in nanoseconds, as another file has them"
            );
        }
    }
    Ok(())
}
