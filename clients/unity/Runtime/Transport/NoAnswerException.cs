using System;

namespace Scoregate
{
    /// <summary>Says that no whole answer came.</summary>
    public sealed class NoAnswerException : Exception
    {
        /// <summary>Make an error. <paramref name="wasConnected"/> is false only if nothing can have been sent.</summary>
        public NoAnswerException(string message, bool wasConnected, Exception cause = null) : base(message, cause)
        {
            WasConnected = wasConnected;
        }

        /// <summary>False if no connection was made, so that the gateway cannot have seen the request.</summary>
        public bool WasConnected { get; }
    }
}
