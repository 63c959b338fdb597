// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

/// A contract that takes no ether.
contract Refuser {
    receive() external payable {
        revert("no ether, please");
    }
}
