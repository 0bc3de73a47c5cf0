//! A small table: two data files, and deletes between them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use iceberg::io::{FileIO, OutputFile};
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, ManifestFile, ManifestListWriter,
    ManifestWriterBuilder, NestedField, PartitionSpec, PrimitiveType, Schema as IcebergSchema, Type,
};
use pagecast_iceberg::{Options, Table};
use pagecast_tables::VersionedTable;
use parquet::arrow::ArrowWriter;
use roaring::RoaringTreemap;
use tempfile::TempDir;

/// Rows of each data file. The ids of the second follow those of the first.
pub(crate) const ROWS: i64 = 100;
/// What is left of the first file's rows: ten are deleted by their numbers, one by its id.
pub(crate) const LEFT: i64 = 2 * ROWS - 11;

pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) root: PathBuf,
    version: u8,
}

impl Fixture {
    /// A table of this version of the format; version 1 has no deletes.
    pub(crate) async fn new(version: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("t");
        std::fs::create_dir_all(root.join("data")).unwrap();
        std::fs::create_dir_all(root.join("metadata")).unwrap();
        let table = Self { folder, root, version };
        let (one, two) = (table.data("a", 0, None), table.data("b", ROWS, None));
        let mut manifests = vec![table.manifest("m1", vec![(one.clone(), 1)], false).await];
        if version > 1 {
            let deletes = vec![(table.positions(&one), 2), (table.equal(&[50, 150]), 2)];
            manifests.push(table.manifest("m2", deletes, true).await);
        }
        manifests.push(table.manifest("m3", vec![(two, 3)], false).await);
        table.list(manifests).await;
        table.metadata(|_| ());
        table
    }

    pub(crate) fn uri(&self, name: &str) -> String {
        format!("file://{}/{name}", self.root.display())
    }

    /// Writes a Parquet file of ids, with ids of columns.
    fn file(&self, name: &str, columns: Vec<(&str, i32, ArrayRef)>) -> DataFileBuilder {
        let field = |(name, id, values): &(&str, i32, ArrayRef)| {
            let id = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
            Field::new(*name, values.data_type().clone(), false).with_metadata(id)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, _, values)| values).collect();
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let path = self.root.join("data").join(format!("{name}.parquet"));
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), schema, None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let mut file = DataFileBuilder::default();
        file.file_path(self.uri(&format!("data/{name}.parquet")))
            .file_format(DataFileFormat::Parquet)
            .record_count(rows.num_rows() as u64)
            .file_size_in_bytes(path.metadata().unwrap().len())
            .partition_spec_id(0);
        file
    }

    pub(crate) fn data(&self, name: &str, first: i64, path: Option<String>) -> DataFile {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + ROWS));
        let words: ArrayRef = Arc::new(StringArray::from_iter_values((first..first + ROWS).map(|id| format!("w{id}"))));
        let mut file = self.file(name, vec![("id", 1, ids), ("word", 2, words)]);
        if let Some(path) = path {
            file.file_path(path);
        }
        file.content(DataContentType::Data).build().unwrap()
    }

    /// Deletes rows 10 to 19, in the way of the version.
    fn positions(&self, of: &DataFile) -> DataFile {
        let deleted = 10..20_i64;
        let mut file = if self.version == 2 {
            let paths: ArrayRef = Arc::new(StringArray::from_iter_values(deleted.clone().map(|_| of.file_path())));
            let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(deleted));
            self.file("positions", vec![("file_path", 2_147_483_546, paths), ("pos", 2_147_483_545, rows)])
        } else {
            let mut bitmap = vec![0xd1, 0xd3, 0x39, 0x64];
            deleted.map(|row| row as u64).collect::<RoaringTreemap>().serialize_into(&mut bitmap).unwrap();
            let blob =
                [&(bitmap.len() as u32).to_be_bytes()[..], &bitmap, &crc32fast::hash(&bitmap).to_be_bytes()].concat();
            std::fs::write(self.root.join("data/vector.puffin"), [b"PFA1", &blob[..]].concat()).unwrap();
            let mut file = DataFileBuilder::default();
            file.file_path(self.uri("data/vector.puffin"))
                .file_format(DataFileFormat::Puffin)
                .record_count(10)
                .file_size_in_bytes(4 + blob.len() as u64)
                .partition_spec_id(0)
                .referenced_data_file(Some(of.file_path().to_owned()))
                .content_offset(Some(4))
                .content_size_in_bytes(Some(blob.len() as i64));
            file
        };
        file.content(DataContentType::PositionDeletes).build().unwrap()
    }

    fn equal(&self, ids: &[i64]) -> DataFile {
        let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
        let mut file = self.file("equal", vec![("id", 1, ids)]);
        file.content(DataContentType::EqualityDeletes).equality_ids(Some(vec![1])).build().unwrap()
    }

    fn output(&self, name: &str) -> OutputFile {
        FileIO::new_with_fs().new_output(self.uri(&format!("metadata/{name}.avro"))).unwrap()
    }

    pub(crate) async fn manifest(&self, name: &str, files: Vec<(DataFile, i64)>, deletes: bool) -> ManifestFile {
        let schema = IcebergSchema::builder()
            .with_fields([
                Arc::new(NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long))),
                Arc::new(NestedField::required(2, "word", Type::Primitive(PrimitiveType::String))),
            ])
            .build()
            .unwrap();
        let spec = PartitionSpec::unpartition_spec();
        let builder = ManifestWriterBuilder::new(self.output(name), Some(1), Arc::new(schema), spec);
        let mut writer = match (self.version, deletes) {
            (1, _) => builder.build_v1(),
            (2, false) => builder.build_v2_data(),
            (2, true) => builder.build_v2_deletes(),
            (_, false) => builder.build_v3_data(),
            (_, true) => builder.build_v3_deletes(),
        };
        for (file, sequence) in files {
            writer.add_file(file, sequence).unwrap();
        }
        writer.write_manifest_file().await.unwrap()
    }

    pub(crate) async fn list(&self, manifests: Vec<ManifestFile>) {
        let writer = self.output("list").writer().await.unwrap();
        let mut list = match self.version {
            1 => ManifestListWriter::v1(writer, 1, None),
            2 => ManifestListWriter::v2(writer, 1, None, 3),
            _ => ManifestListWriter::v3(writer, 1, None, 3, Some(0)),
        };
        list.add_manifests(manifests.into_iter()).unwrap();
        list.close().await.unwrap();
    }

    /// Writes the metadata file, after a change.
    pub(crate) fn metadata(&self, change: impl FnOnce(&mut serde_json::Value)) -> PathBuf {
        let mut json = serde_json::json!({
            "format-version": self.version, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": self.uri("").trim_end_matches('/'), "last-sequence-number": 3,
            "last-updated-ms": 1_700_000_000_000_i64, "last-column-id": 2, "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "id", "required": true, "type": "long"},
                {"id": 2, "name": "word", "required": true, "type": "string"}]}],
            "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
            "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
            "current-snapshot-id": 1, "next-row-id": 200, "properties": {},
            "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
            "snapshots": [{"snapshot-id": 1, "sequence-number": 3, "timestamp-ms": 1_700_000_000_000_i64,
                "manifest-list": self.uri("metadata/list.avro"), "summary": {"operation": "append"}, "schema-id": 0,
                "first-row-id": 0, "added-rows": 200}],
            "snapshot-log": [{"snapshot-id": 1, "timestamp-ms": 1_700_000_000_000_i64}], "metadata-log": [],
        });
        if self.version == 1 {
            json["schema"] = json["schemas"][0].clone();
            json["partition-spec"] = serde_json::json!([]);
        }
        change(&mut json);
        let path = self.root.join("metadata/v1.metadata.json");
        std::fs::write(&path, json.to_string()).unwrap();
        path
    }

    /// All its files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let folders = ["metadata", "data"].map(|folder| std::fs::read_dir(self.root.join(folder)).unwrap());
        let mut files: Vec<_> = folders.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

/// A session with the table at this place, if it can be opened.
pub(crate) async fn open(root: &Path) -> Result<SessionContext, String> {
    let table = Table::open(root.to_str().unwrap(), &Options::default(), None).await.map_err(|e| e.to_string())?;
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    pagecast_iceberg::install(&ctx, &[]).unwrap();
    ctx.register_table("t", Arc::new(VersionedTable::newest(table).await.map_err(|e| e.to_string())?)).unwrap();
    Ok(ctx)
}

/// What a statement gives, as lines.
pub(crate) async fn run(ctx: &SessionContext, sql: &str) -> Result<String, String> {
    let rows = async { ctx.sql(sql).await?.collect().await };
    Ok(pretty_format_batches(&rows.await.map_err(|error| error.to_string())?).unwrap().to_string())
}

/// The number that a statement gives.
pub(crate) async fn number(ctx: &SessionContext, sql: &str) -> i64 {
    let rows = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    assert_eq!(rows[0].schema().field(0).data_type(), &DataType::Int64);
    rows[0].column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0)
}
