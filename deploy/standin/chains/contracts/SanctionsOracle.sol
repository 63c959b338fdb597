// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// A list of sanctioned addresses with the interface of Chainalysis. It can be silenced.
contract SanctionsOracle {
    mapping(address => bool) private sanctioned;
    bool private silent;

    function set(address account, bool is_) external {
        sanctioned[account] = is_;
    }

    function silence(bool is_) external {
        silent = is_;
    }

    function isSanctioned(address account) external view returns (bool) {
        require(!silent, "no answer");
        return sanctioned[account];
    }
}
