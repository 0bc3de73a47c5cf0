// What the JDBC driver of Flight SQL does with a server at the address that is the argument:
// metadata as tools ask for it, parameters, many rows, errors, wrong passwords, cancelling.

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

public class FlightJdbc {
    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static List<String> column(ResultSet given, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        try (ResultSet rows = given) {
            while (rows.next()) {
                values.add(rows.getString(name));
            }
        }
        return values;
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        check(metadata.getDatabaseProductName().equals("pagecast"), metadata.getDatabaseProductName());
        check(metadata.isReadOnly() && metadata.supportsGroupBy() && metadata.supportsUnionAll(), "what it can");
        check(metadata.getIdentifierQuoteString().equals("\""), metadata.getIdentifierQuoteString());
        // Tools ask for all of these when they connect.
        metadata.getSQLKeywords();
        metadata.getNumericFunctions();
        metadata.getStringFunctions();
        metadata.getSystemFunctions();
        metadata.getTimeDateFunctions();
        metadata.getSearchStringEscape();
        metadata.getExtraNameCharacters();
        metadata.getDefaultTransactionIsolation();
        metadata.supportsTransactions();
        metadata.supportsOuterJoins();
        metadata.supportsCorrelatedSubqueries();
        metadata.supportsResultSetType(ResultSet.TYPE_FORWARD_ONLY);
        metadata.supportsSchemasInTableDefinitions();
        metadata.getMaxConnections();
        metadata.getMaxStatementLength();
        check(column(metadata.getCatalogs(), "TABLE_CAT").equals(List.of("pagecast")), "catalogs");
        List<String> schemas = column(metadata.getSchemas(), "TABLE_SCHEM");
        check(schemas.contains("public"), schemas);
        check(column(metadata.getTableTypes(), "TABLE_TYPE").contains("TABLE"), "types of tables");
        List<String> tables = column(metadata.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
        check(tables.contains("lineitem") && tables.size() == 8, tables);
        List<String> columns = column(metadata.getColumns(null, "public", "nation", "%"), "COLUMN_NAME");
        check(columns.equals(List.of("n_nationkey", "n_name", "n_regionkey", "n_comment")), columns);
        // The driver does not ask for it.
        metadata.getTypeInfo().close();
        check(column(metadata.getPrimaryKeys(null, "public", "nation"), "COLUMN_NAME").isEmpty(), "keys");
        check(column(metadata.getImportedKeys(null, "public", "nation"), "FK_NAME").isEmpty(), "keys");
        check(column(metadata.getExportedKeys(null, "public", "nation"), "FK_NAME").isEmpty(), "keys");
    }

    static void parameters(Connection connection) throws SQLException {
        String sql = "SELECT count(*), sum(l_extendedprice) FROM lineitem WHERE l_shipdate < ? AND l_quantity > ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            check(statement.getMetaData().getColumnCount() == 2, statement.getMetaData().getColumnCount());
            BigDecimal first = null;
            for (int time = 0; time < 3; time++) {
                statement.setDate(1, Date.valueOf("1995-01-01"));
                statement.setBigDecimal(2, new BigDecimal("10.50"));
                try (ResultSet rows = statement.executeQuery()) {
                    check(rows.next() && rows.getLong(1) > 0, "no rows");
                    first = first == null ? rows.getBigDecimal(2) : first;
                    check(first.equals(rows.getBigDecimal(2)), rows.getBigDecimal(2));
                }
            }
        }
    }

    static void rows(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            try (ResultSet rows = statement.executeQuery("SELECT o_orderkey, o_orderdate, o_comment FROM orders")) {
                int count = 0;
                while (rows.next()) {
                    check(rows.getDate(2) != null && rows.getString(3) != null, "nothing");
                    count++;
                }
                check(count == 15000, count);
            }
            check(!statement.execute("SET statement_timeout = '5min'"), "a setting gives rows");
        }
    }

    static void errors(Connection connection) throws SQLException {
        for (String[] wrong : new String[][] {{"SELECT * FROM nowhere", "42P01"}, {"DELETE FROM nation", "25006"}}) {
            try (Statement statement = connection.createStatement()) {
                statement.execute(wrong[0]);
                throw new AssertionError(wrong[0] + " is no error");
            } catch (SQLException error) {
                check(String.valueOf(error).contains(wrong[1]) || String.valueOf(error.getCause()).contains(wrong[1]), error);
            }
        }
    }

    static void cancelling(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    Thread.sleep(500);
                    statement.cancel();
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            });
            canceller.start();
            try (ResultSet rows = statement.executeQuery("SELECT sum(value) FROM generate_series(1, 1000000000000)")) {
                check(!rows.next(), "a query without an end has ended");
            } catch (SQLException error) {
                check(String.valueOf(error.getMessage()).toLowerCase().contains("cancel"), error);
            }
            canceller.join();
        }
    }

    /** Waits until the query that asks is the only one. */
    static void idle(Connection connection) throws Exception {
        for (int time = 0; ; time++) {
            String sql = "SELECT value FROM pagecast.status WHERE name = 'queries_running'";
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
                rows.next();
                if (rows.getLong(1) == 1) {
                    return;
                }
                check(time < 600, rows.getLong(1));
            }
            Thread.sleep(100);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false";
        try (Connection connection = DriverManager.getConnection(url, "ada", "other")) {
            connection.createStatement().executeQuery("SELECT 1");
            throw new AssertionError("a wrong password was taken");
        } catch (SQLException error) {
            check(String.valueOf(error).contains("authentication") || String.valueOf(error.getCause()).contains("authentication"), error);
        }
        try (Connection connection = DriverManager.getConnection(url, "ada", "secret")) {
            metadata(connection);
            parameters(connection);
            rows(connection);
            errors(connection);
            Connection other = DriverManager.getConnection(url, "ada", "secret");
            cancelling(other);
            idle(connection);
            try {
                other.close();
            } catch (SQLException error) {
                // The driver finds that it has not freed a stream that it cancelled.
                check(String.valueOf(error).contains("leaked"), error);
            }
        }
        System.out.println("done");
    }
}
