// What PostgreSQL's JDBC driver does with a server, on the port that is the argument: metadata as
// tools ask for it, parameters, rows in parts, errors.

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;

public class Jdbc {
    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) {
            values.add(rows.getString(name));
        }
        return values;
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        check(metadata.getDatabaseMajorVersion() == 16, metadata.getDatabaseProductVersion());
        List<String> schemas = column(metadata.getSchemas(), "TABLE_SCHEM");
        check(schemas.contains("public"), schemas);
        List<String> tables = column(metadata.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
        check(tables.contains("lineitem") && tables.size() == 8, tables);
        List<String> columns = column(metadata.getColumns(null, "public", "nation", "%"), "COLUMN_NAME");
        check(columns.equals(List.of("n_nationkey", "n_name", "n_regionkey", "n_comment")), columns);
        ResultSet types = metadata.getColumns(null, "public", "lineitem", "l_discount");
        check(types.next() && types.getString("TYPE_NAME").equals("numeric"), "no type");
        check(types.getInt("COLUMN_SIZE") == 15 && types.getInt("DECIMAL_DIGITS") == 2, types.getInt("COLUMN_SIZE"));
        check(types.getString("IS_NULLABLE").equals("NO") && types.getInt("ORDINAL_POSITION") == 7, "no place");
        List<String> known = column(metadata.getTypeInfo(), "TYPE_NAME");
        check(known.contains("int8") && known.contains("numeric") && known.contains("timestamptz"), known);
        check(column(metadata.getTableTypes(), "TABLE_TYPE").contains("TABLE"), "no types of tables");
        check(column(metadata.getCatalogs(), "TABLE_CAT").equals(List.of("pagecast")), "databases");
        check(column(metadata.getIndexInfo(null, "public", "nation", false, true), "INDEX_NAME").isEmpty(), "indexes");
        check(column(metadata.getImportedKeys(null, "public", "nation"), "FK_NAME").isEmpty(), "foreign keys");
        check(column(metadata.getExportedKeys(null, "public", "nation"), "FK_NAME").isEmpty(), "foreign keys");
        check(column(metadata.getFunctions(null, "public", "%"), "FUNCTION_NAME").isEmpty(), "functions");
        check(column(metadata.getProcedures(null, "public", "%"), "PROCEDURE_NAME").isEmpty(), "procedures");
        check(column(metadata.getUDTs(null, "public", "%", null), "TYPE_NAME").isEmpty(), "own types");
        column(metadata.getTablePrivileges(null, "public", "nation"), "PRIVILEGE");
        check(metadata.getSQLKeywords().contains("explain"), metadata.getSQLKeywords());
        check(metadata.isReadOnly() || !metadata.getURL().isEmpty(), metadata.getURL());
        check(column(metadata.getPrimaryKeys(null, "public", "nation"), "COLUMN_NAME").isEmpty(), "keys");
    }

    static void values(Connection connection) throws SQLException {
        String sql = "SELECT true, 7::smallint, 7::int, 7::bigint, 0.5::real, 0.1::double precision, "
            + "12.340::numeric(10, 3), 'text', '\\x01ff'::bytea, DATE '2024-02-29', TIMESTAMP '1999-12-31 23:59:59.5', "
            + "TIMESTAMPTZ '2024-01-01 00:00:00+00', INTERVAL '2 days', ARRAY[1, NULL, 3], NULL";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            // The sixth time they come in the binary format.
            for (int time = 0; time < 8; time++) {
                try (ResultSet row = statement.executeQuery()) {
                    check(row.next() && row.getBoolean(1) && row.getShort(2) == 7 && row.getInt(3) == 7, "numbers");
                    check(row.getLong(4) == 7 && row.getFloat(5) == 0.5f && row.getDouble(6) == 0.1, "numbers");
                    check(row.getBigDecimal(7).equals(new BigDecimal("12.340")), row.getBigDecimal(7));
                    check(row.getString(8).equals("text") && row.getBytes(9)[1] == -1, "text and bytes");
                    check(row.getDate(10).equals(Date.valueOf("2024-02-29")), row.getDate(10));
                    check(row.getTimestamp(11).toString().equals("1999-12-31 23:59:59.5"), row.getTimestamp(11));
                    check(row.getObject(12, OffsetDateTime.class).toEpochSecond() == 1704067200L, row.getString(12));
                    check(row.getString(13).contains("2 days"), row.getString(13));
                    Object[] list = (Object[]) row.getArray(14).getArray();
                    check(list[0].equals(1L) && list[1] == null && list.length == 3, row.getString(14));
                    check(row.getString(15) == null && row.wasNull(), "no null");
                }
            }
        }
    }

    static void parameters(Connection connection) throws SQLException {
        String sql = "SELECT count(*), sum(l_extendedprice) FROM lineitem WHERE l_shipdate < ? AND l_quantity > ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            // From the fifth time on the driver prepares it on the server, and asks for the binary format.
            BigDecimal first = null;
            for (int time = 0; time < 8; time++) {
                statement.setDate(1, Date.valueOf("1995-01-01"));
                statement.setBigDecimal(2, new BigDecimal("10.5"));
                try (ResultSet rows = statement.executeQuery()) {
                    check(rows.next() && rows.getLong(1) > 0, "no rows");
                    first = first == null ? rows.getBigDecimal(2) : first;
                    check(first.equals(rows.getBigDecimal(2)), rows.getBigDecimal(2));
                }
            }
        }
    }

    static void parts(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(100);
            try (ResultSet rows = statement.executeQuery("SELECT o_orderkey, o_orderdate FROM orders")) {
                int count = 0;
                while (rows.next()) {
                    check(rows.getDate(2) != null, "no date");
                    count++;
                }
                check(count == 15000, count);
            }
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    static void errors(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT * FROM nowhere");
            throw new AssertionError("a table that is not there was read");
        } catch (SQLException error) {
            check(error.getSQLState().equals("42P01"), error.getSQLState());
        }
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("SELECT sum(value) FROM generate_series(1, 1000000000000)");
            throw new AssertionError("a query without an end has ended");
        } catch (SQLException error) {
            check(error.getSQLState().equals("57014"), error.getSQLState());
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/pagecast";
        try (Connection connection = DriverManager.getConnection(url, "java", "")) {
            metadata(connection);
            values(connection);
            parameters(connection);
            parts(connection);
            errors(connection);
        }
        System.out.println("done");
    }
}
