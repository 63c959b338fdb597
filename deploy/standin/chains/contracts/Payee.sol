// SPDX-License-Identifier: UNLICENSED
pragma solidity 0.8.30;

import {USDC} from "./USDC.sol";

/// A contract as the destination of a payout. What it does with ether is what its mode says, which
/// anybody may set.
contract Payee {
    uint8 private constant REFUSE = 1;
    uint8 private constant BURN = 2; // uses up all gas
    uint8 private constant BURN_ON_CHAIN = 3; // takes ether where gas is free or its payer has code, as in simulations
    uint8 private constant REENTER = 4; // calls a token in the name of its payer

    uint8 public mode; // another one takes ether
    address public token;

    constructor(uint8 mode_) {
        mode = mode_;
    }

    function set(uint8 mode_, address token_) external {
        mode = mode_;
        token = token_;
    }

    receive() external payable {
        if (mode == REFUSE) {
            revert("no ether, please");
        }
        if (mode == BURN || (mode == BURN_ON_CHAIN && tx.gasprice > 0 && msg.sender.code.length == 0)) {
            assembly {
                invalid()
            }
        }
        if (mode == REENTER) {
            (bool done,) = token.call(abi.encodeCall(USDC.transferFrom, (msg.sender, address(this), 0)));
            require(done);
        }
    }
}
