// Command temporal is the Temporal server, its SQL tool and its UI in one program: most of their code is the same, and
// the first start of the local stack links it once instead of three times.
//
// What the three bring for other databases than PostgreSQL, and flags that the local stack does not use, is left out.
// So are the libraries of clouds and of SQLite: the files of _without take the place of what uses them.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	_ "time/tzdata" // for schedules, on a computer without time zones

	"github.com/temporalio/ui-server/v2/plugins/fs_config_provider"
	ui "github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql" // the database
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/temporal"
	"go.temporal.io/server/tools/sql"
)

const usage = `usage:
  temporal server [CONFIG-FILE]       runs the services of the configuration; who may do what is its global.authorization
  temporal sql ARGUMENTS              is temporal-sql-tool
  temporal ui CONFIG-DIRECTORY NAME   runs the UI with NAME.yaml of the directory`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "server":
		return runServer(args[1])
	case len(args) == 1 && args[0] == "server":
		return runServer("")
	case len(args) > 1 && args[0] == "sql":
		return sql.RunTool(args)
	case len(args) == 3 && args[0] == "ui":
		return runUI(args[1], args[2])
	}
	return fmt.Errorf("%s", usage)
}

// runServer runs until it is interrupted. Without a file it is configured by the environment, as Temporal's image is.
func runServer(configFile string) error {
	source := config.WithEmbedded()
	if configFile != "" {
		source = config.WithConfigFile(configFile)
	}
	cfg, err := config.Load(source)
	if err != nil {
		return err
	}
	if err := refuseLeftOut(cfg); err != nil {
		return err
	}
	logger := log.NewZapLogger(log.BuildZapLogger(cfg.Log))
	authorizer, err := authorization.GetAuthorizerFromConfig(&cfg.Global.Authorization)
	if err != nil {
		return err
	}
	claims, err := authorization.GetClaimMapperFromConfig(&cfg.Global.Authorization, logger)
	if err != nil {
		return err
	}
	server, err := temporal.NewServer(
		temporal.ForServices(slices.Collect(maps.Keys(cfg.Services))),
		temporal.WithConfig(cfg),
		temporal.WithLogger(logger),
		temporal.InterruptOn(temporal.InterruptCh()),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
	)
	if err != nil {
		return err
	}
	return server.Start()
}

// refuseLeftOut returns an error for a configuration that needs a part that the build leaves out. Without it the server
// would start first, and fail when it needs it.
func refuseLeftOut(cfg *config.Config) error {
	var left []string
	if history := cfg.Archival.History.Provider; history != nil && (history.S3store != nil || history.Gstorage != nil) {
		left = append(left, "archives of histories in a cloud")
	}
	if seen := cfg.Archival.Visibility.Provider; seen != nil && (seen.S3store != nil || seen.Gstorage != nil) {
		left = append(left, "archives of visibility in a cloud")
	}
	for _, store := range cfg.Persistence.DataStores {
		if store.SQL != nil && store.SQL.PluginName == sqlite.PluginName {
			left = append(left, "SQLite")
		}
		if store.Elasticsearch != nil && store.Elasticsearch.AWSRequestSigning.Enabled {
			left = append(left, "signed requests to AWS")
		}
	}
	if left != nil {
		return fmt.Errorf("left out of the local stack's build of Temporal: %s", strings.Join(left, ", "))
	}
	return nil
}

// runUI runs until it is interrupted.
func runUI(configDir, name string) error {
	server := ui.NewServer(server_options.WithConfigProvider(fs_config_provider.NewFSConfigProvider(configDir, name)))
	defer server.Stop()
	return server.Start()
}
