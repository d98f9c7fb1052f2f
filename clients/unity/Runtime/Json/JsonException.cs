using System;

namespace Scoregate
{
    /// <summary>Says that a text is not JSON as this package reads it, or has not the shape that was asked for.</summary>
    public sealed class JsonException : Exception
    {
        /// <summary>Make an error with what is wrong.</summary>
        public JsonException(string message) : base(message)
        {
        }
    }
}
