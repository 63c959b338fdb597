package app

import "github.com/spf13/cobra"

func (c *call) payoutCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "payout",
		Short: "Look at a payout, let a held one go on",
		Long:  `Works on one payout of any merchant.`,
	}
	command.AddCommand(c.payoutShowCommand(), c.payoutReleaseCommand())
	return command
}
