package pgpolicy

// allowedKinds are the messages that a tree may be made of: what a raw parse gives for one SELECT. Each stands here
// because somebody looked at each of its fields; the rules about fields are in walk.go.
const allowedKinds = `
ParseResult RawStmt Node List SelectStmt WithClause CommonTableExpr CTESearchClause CTECycleClause
ResTarget ColumnRef A_Star A_Const Integer Float Boolean String BitString
A_Expr BoolExpr NullTest BooleanTest SubLink CaseExpr CaseWhen CoalesceExpr MinMaxExpr SQLValueFunction
FuncCall NamedArgExpr WindowDef SortBy GroupingSet GroupingFunc TypeCast TypeName CollateClause
A_Indices A_Indirection A_ArrayExpr RowExpr
RangeVar Alias JoinExpr RangeSubselect RangeFunction RangeTableSample ColumnDef
XmlExpr XmlSerialize
JsonFormat JsonReturning JsonOutput JsonValueExpr JsonKeyValue JsonArgument JsonFuncExpr JsonBehavior
JsonIsPredicate JsonParseExpr JsonScalarExpr JsonSerializeExpr JsonObjectConstructor JsonArrayConstructor
JsonArrayQueryConstructor JsonAggConstructor JsonObjectAgg JsonArrayAgg JsonTable JsonTableColumn JsonTablePathSpec
`

// laterKinds are messages with a syntax that PostgreSQL has had since this major version. An older server takes some of
// their texts for something else: JSON_SCALAR(1) is there a call of whatever function of that name the search path leads
// to (measured on 15.18), which no list allows.
var laterKinds = map[string]int{
	"JsonObjectConstructor": 16, "JsonArrayConstructor": 16, "JsonArrayQueryConstructor": 16, "JsonAggConstructor": 16,
	"JsonObjectAgg": 16, "JsonArrayAgg": 16, "JsonIsPredicate": 16,
	"JsonFuncExpr": 17, "JsonParseExpr": 17, "JsonScalarExpr": 17, "JsonSerializeExpr": 17, "JsonTable": 17,
}

// refusedKinds are all other messages, each with the words that name it to the caller: "WORDS is not allowed". A kind
// that a raw parse never yields has the words of internalKind.
const refusedKinds = `
AccessPriv                  GRANT
Aggref                      -
AlterCollationStmt          ALTER COLLATION
AlterDatabaseRefreshCollStmt ALTER DATABASE
AlterDatabaseSetStmt        ALTER DATABASE
AlterDatabaseStmt           ALTER DATABASE
AlterDefaultPrivilegesStmt  ALTER DEFAULT PRIVILEGES
AlterDomainStmt             ALTER DOMAIN
AlterEnumStmt               ALTER TYPE
AlterEventTrigStmt          ALTER EVENT TRIGGER
AlterExtensionContentsStmt  ALTER EXTENSION
AlterExtensionStmt          ALTER EXTENSION
AlterFdwStmt                ALTER FOREIGN DATA WRAPPER
AlterForeignServerStmt      ALTER SERVER
AlterFunctionStmt           ALTER FUNCTION
AlterObjectDependsStmt      ALTER ... DEPENDS ON EXTENSION
AlterObjectSchemaStmt       ALTER ... SET SCHEMA
AlterOpFamilyStmt           ALTER OPERATOR FAMILY
AlterOperatorStmt           ALTER OPERATOR
AlterOwnerStmt              ALTER ... OWNER
AlterPolicyStmt             ALTER POLICY
AlterPublicationStmt        ALTER PUBLICATION
AlterRoleSetStmt            ALTER ROLE
AlterRoleStmt               ALTER ROLE
AlterSeqStmt                ALTER SEQUENCE
AlterStatsStmt              ALTER STATISTICS
AlterSubscriptionStmt       ALTER SUBSCRIPTION
AlterSystemStmt             ALTER SYSTEM
AlterTSConfigurationStmt    ALTER TEXT SEARCH CONFIGURATION
AlterTSDictionaryStmt       ALTER TEXT SEARCH DICTIONARY
AlterTableCmd               ALTER TABLE
AlterTableMoveAllStmt       ALTER TABLE ALL
AlterTableSpaceOptionsStmt  ALTER TABLESPACE
AlterTableStmt              ALTER TABLE
AlterTypeStmt               ALTER TYPE
AlterUserMappingStmt        ALTER USER MAPPING
AlternativeSubPlan          -
ArrayCoerceExpr             -
ArrayExpr                   -
CallContext                 CALL
CallStmt                    CALL
CaseTestExpr                -
CheckPointStmt              CHECKPOINT
ClosePortalStmt             CLOSE
ClusterStmt                 CLUSTER
CoerceToDomain              -
CoerceToDomainValue         -
CoerceViaIO                 -
CollateExpr                 -
CommentStmt                 COMMENT
CompositeTypeStmt           CREATE TYPE
Constraint                  a constraint
ConstraintsSetStmt          SET CONSTRAINTS
ConvertRowtypeExpr          -
CopyStmt                    COPY
CreateAmStmt                CREATE ACCESS METHOD
CreateCastStmt              CREATE CAST
CreateConversionStmt        CREATE CONVERSION
CreateDomainStmt            CREATE DOMAIN
CreateEnumStmt              CREATE TYPE
CreateEventTrigStmt         CREATE EVENT TRIGGER
CreateExtensionStmt         CREATE EXTENSION
CreateFdwStmt               CREATE FOREIGN DATA WRAPPER
CreateForeignServerStmt     CREATE SERVER
CreateForeignTableStmt      CREATE FOREIGN TABLE
CreateFunctionStmt          CREATE FUNCTION
CreateOpClassItem           CREATE OPERATOR CLASS
CreateOpClassStmt           CREATE OPERATOR CLASS
CreateOpFamilyStmt          CREATE OPERATOR FAMILY
CreatePLangStmt             CREATE LANGUAGE
CreatePolicyStmt            CREATE POLICY
CreatePublicationStmt       CREATE PUBLICATION
CreateRangeStmt             CREATE TYPE
CreateRoleStmt              CREATE ROLE
CreateSchemaStmt            CREATE SCHEMA
CreateSeqStmt               CREATE SEQUENCE
CreateStatsStmt             CREATE STATISTICS
CreateStmt                  CREATE TABLE
CreateSubscriptionStmt      CREATE SUBSCRIPTION
CreateTableAsStmt           CREATE TABLE AS
CreateTableSpaceStmt        CREATE TABLESPACE
CreateTransformStmt         CREATE TRANSFORM
CreateTrigStmt              CREATE TRIGGER
CreateUserMappingStmt       CREATE USER MAPPING
CreatedbStmt                CREATE DATABASE
CurrentOfExpr               WHERE CURRENT OF
DeallocateStmt              DEALLOCATE
DeclareCursorStmt           DECLARE CURSOR
DefElem                     an option
DefineStmt                  CREATE
DeleteStmt                  DELETE
DiscardStmt                 DISCARD
DistinctExpr                -
DoStmt                      DO
DropOwnedStmt               DROP OWNED
DropRoleStmt                DROP ROLE
DropStmt                    DROP
DropSubscriptionStmt        DROP SUBSCRIPTION
DropTableSpaceStmt          DROP TABLESPACE
DropUserMappingStmt         DROP USER MAPPING
DropdbStmt                  DROP DATABASE
ExecuteStmt                 EXECUTE
ExplainStmt                 EXPLAIN inside of a statement
FetchStmt                   FETCH from a cursor
FieldSelect                 -
FieldStore                  -
FromExpr                    -
FuncExpr                    -
FunctionParameter           CREATE FUNCTION
GrantRoleStmt               GRANT
GrantStmt                   GRANT or REVOKE
ImportForeignSchemaStmt     IMPORT FOREIGN SCHEMA
IndexElem                   CREATE INDEX
IndexStmt                   CREATE INDEX
InferClause                 ON CONFLICT
InferenceElem               -
InlineCodeBlock             DO
InsertStmt                  INSERT
IntList                     -
IntoClause                  SELECT INTO
JsonConstructorExpr         -
JsonExpr                    -
JsonTablePath               -
JsonTablePathScan           -
JsonTableSiblingJoin        -
ListenStmt                  LISTEN
LoadStmt                    LOAD
LockStmt                    LOCK
LockingClause               a row lock (FOR UPDATE, FOR SHARE)
MergeAction                 MERGE
MergeStmt                   MERGE
MergeSupportFunc            MERGE_ACTION
MergeWhenClause             MERGE
MultiAssignRef              an assignment
NextValueExpr               -
NotifyStmt                  NOTIFY
NullIfExpr                  -
ObjectWithArgs              a signature
OidList                     -
OnConflictClause            ON CONFLICT
OnConflictExpr              -
OpExpr                      -
PLAssignStmt                an assignment
Param                       -
ParamRef                    a bind parameter
PartitionBoundSpec          PARTITION OF
PartitionCmd                ALTER TABLE
PartitionElem               PARTITION BY
PartitionRangeDatum         PARTITION OF
PartitionSpec               PARTITION BY
PrepareStmt                 PREPARE
PublicationObjSpec          CREATE PUBLICATION
PublicationTable            CREATE PUBLICATION
Query                       -
RTEPermissionInfo           -
RangeTableFunc              XMLTABLE
RangeTableFuncCol           XMLTABLE
RangeTblEntry               -
RangeTblFunction            -
RangeTblRef                 -
ReassignOwnedStmt           REASSIGN OWNED
RefreshMatViewStmt          REFRESH MATERIALIZED VIEW
ReindexStmt                 REINDEX
RelabelType                 -
RenameStmt                  ALTER ... RENAME
ReplicaIdentityStmt         ALTER TABLE
ReturnStmt                  RETURN
RoleSpec                    a role
RowCompareExpr              -
RowMarkClause               -
RuleStmt                    CREATE RULE
ScalarArrayOpExpr           -
ScanResult                  -
ScanToken                   -
SecLabelStmt                SECURITY LABEL
SetOperationStmt            -
SetToDefault                DEFAULT
SinglePartitionSpec         PARTITION
SortGroupClause             -
StatsElem                   CREATE STATISTICS
SubPlan                     -
SubscriptingRef             -
SummaryResult               -
TableFunc                   -
TableLikeClause             LIKE in CREATE TABLE
TableSampleClause           -
TargetEntry                 -
TransactionStmt             transaction control
TriggerTransition           CREATE TRIGGER
TruncateStmt                TRUNCATE
UnlistenStmt                UNLISTEN
UpdateStmt                  UPDATE
VacuumRelation              VACUUM
VacuumStmt                  VACUUM or ANALYZE
Var                         -
VariableSetStmt             SET
VariableShowStmt            SHOW
ViewStmt                    CREATE VIEW
WindowClause                -
WindowFunc                  -
WindowFuncRunCondition      -
WithCheckOption             -
`

// internalKind names what PostgreSQL makes of a tree later on, and a raw parse never yields.
const internalKind = "an internal node"
